-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Times in which no node served a partition
--
-- What came due in such a time was missed, whether or not it had been planned before.

ALTER TABLE partition
    ADD COLUMN served_until timestamptz,
    ADD COLUMN missed_from  timestamptz,
    ADD COLUMN missed_until timestamptz;
COMMENT ON COLUMN partition.served_until IS
    'When the last owner released the partition. If it has an owner, session.renewed_at says how long that served it.';
COMMENT ON COLUMN partition.missed_from IS
    'Since when no node served the partition, until its owner has applied the missed policies to the planned runs that '
    'came due from then until missed_until. Meanwhile none of them starts. NULL: none are left.';
COMMENT ON COLUMN partition.missed_until IS
    'Occurrences before it that are not planned yet were missed. It lies 10 s before the instant at which a node '
    'began to serve the partition again. NULL: a node has served it all the time.';
COMMENT ON COLUMN partition.owner IS
    'Session of the node that owns the partition. NULL: none. The session stays as long as it is named here.';

-- +goose Down

ALTER TABLE partition DROP COLUMN served_until, DROP COLUMN missed_from, DROP COLUMN missed_until;
COMMENT ON COLUMN partition.owner IS 'Session of the node that owns the partition. NULL: none.';
