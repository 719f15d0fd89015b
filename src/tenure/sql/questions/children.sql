-- children: the rows of a group in the order in which they were sent, and whether it has ended
-- in: id bigint
-- out: members uuid[], ended boolean
SELECT g.members, g.ended_at IS NOT NULL FROM tenure.groups AS g WHERE g.id = :id
