-- Records that a migration was applied.
-- params: number int, name text, checksum text
-- returns: nothing
INSERT INTO pgwork.migration (number, name, checksum) VALUES ($1, $2, $3)
