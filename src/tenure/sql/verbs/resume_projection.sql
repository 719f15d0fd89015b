-- resume_projection: go on with a projection that was paused or has stopped, or whose rows were cancelled, deleted or put off
-- in: projection text
-- out: known boolean, unpaused boolean, again int, made int, brought_back int, hastened int
SELECT r.known, r.unpaused, r.again, r.made, r.brought_back, r.hastened FROM tenure.resume_projection(:projection) AS r
