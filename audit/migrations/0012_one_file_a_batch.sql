-- The part that a batch makes is one file, and not one for each column, index and projection: some two hundred, whose making
-- was a quarter of what it costs to store an event. What merges make of several full batches is by columns, as it was.
ALTER TABLE events ${on_cluster} MODIFY SETTING min_bytes_for_wide_part = 67108864;

ALTER TABLE call_states ${on_cluster} MODIFY SETTING min_bytes_for_wide_part = 67108864;
