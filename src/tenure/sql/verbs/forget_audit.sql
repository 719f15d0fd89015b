-- forget_audit: forget the oldest lines of the audit; the chain then begins at the last hash of them
-- in: seconds float8
-- out: lines (how many)
SELECT tenure.forget_audit(make_interval(secs => :seconds))
