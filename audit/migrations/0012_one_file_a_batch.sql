-- The part that a batch makes is one file, and not one for each column, index and projection: some two hundred, which every
-- insert had to make. What merges make of full batches of events is by columns, as it was.
ALTER TABLE events ${on_cluster} MODIFY SETTING min_bytes_for_wide_part = 67108864;

ALTER TABLE call_states ${on_cluster} MODIFY SETTING min_bytes_for_wide_part = 67108864;
