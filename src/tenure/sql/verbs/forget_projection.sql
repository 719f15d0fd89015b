-- forget_projection: forget how far a projection was, what it skipped, and its rows; its tables stay
-- in: projection text
-- out: known boolean
SELECT f.known FROM tenure.forget_projection(:projection) AS f (known)
