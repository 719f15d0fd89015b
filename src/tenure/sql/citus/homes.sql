-- The inbox that each of these keys belongs to.
SELECT k.key, tenure_door.home(k.key) FROM jsonb_array_elements_text(:'keys'::jsonb) AS k (key)
