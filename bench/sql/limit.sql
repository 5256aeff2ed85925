-- What PostgreSQL itself can do with rows of that size: no lease, no fence, no lookup.
CREATE SCHEMA lim;
CREATE TABLE lim.row (id bigint GENERATED ALWAYS AS IDENTITY, created_at timestamptz NOT NULL DEFAULT clock_timestamp(), payload jsonb);
CREATE INDEX row_id ON lim.row (id);
-- and with many queues
CREATE TABLE lim.of_queue (queue integer NOT NULL, id bigint GENERATED ALWAYS AS IDENTITY, created_at timestamptz NOT NULL DEFAULT clock_timestamp(), payload jsonb);
CREATE INDEX of_queue_queue_id ON lim.of_queue (queue, id);
ALTER TABLE lim.row SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE lim.of_queue SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
