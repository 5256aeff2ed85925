-- What PostgreSQL itself can do with rows of that size: no lease, no fence, no lookup.
CREATE SCHEMA lim;
CREATE TABLE lim.row (id bigint GENERATED ALWAYS AS IDENTITY, created_at timestamptz NOT NULL DEFAULT clock_timestamp(), payload jsonb);
CREATE INDEX row_id ON lim.row (id);
ALTER TABLE lim.row SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
