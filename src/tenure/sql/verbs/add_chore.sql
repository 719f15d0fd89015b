-- add_chore: enter a chore of an application, or change how often it is done
-- in: name text, seconds float8
-- out: name (nothing if it was entered like this)
-- why: when it was last done stays: a deploy must not do every chore at once.
INSERT INTO tenure.chores AS c (name, every_seconds) VALUES (:name, :seconds)
ON CONFLICT (name) DO UPDATE SET every_seconds = excluded.every_seconds
  WHERE c.every_seconds <> excluded.every_seconds  -- implied: spares the write
RETURNING c.name
