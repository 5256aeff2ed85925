-- Lists applied migrations.
-- params: none
-- returns: number int, name text, checksum text
SELECT number, name, checksum
  FROM pgwork.migrations
 ORDER BY number
