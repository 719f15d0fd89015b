-- last_entered: which transaction that was entered in this session was committed last?
-- in: (none)
-- out: entered (the mark that it was given; NULL or empty: none)
SELECT current_setting('tenure_tx.entered', true)
