-- within: is this still the transaction that was entered?
-- in: (none)
-- out: within (NULL or empty: no longer the transaction that was entered)
SELECT current_setting('tenure_tx.within', true)
