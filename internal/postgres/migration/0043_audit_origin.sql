-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Nodes of older versions leave them NULL, and the hash of such a row does not cover them.
ALTER TABLE audit_log ADD address text, ADD request_id text;
COMMENT ON TABLE audit_log IS
    'One row for each change that someone requested, and for refused requests of a key in a minute. The rows of a '
    'namespace are a chain: the hash of a row covers the hash of the row before it, so a row that is changed or removed '
    'later is detected.';
COMMENT ON COLUMN audit_log.address IS
    'Address and port of the client, or of the proxy in front of the node. NULL: no request led to this row, or a node '
    'of an older version wrote it.';
COMMENT ON COLUMN audit_log.request_id IS 'The id of the request, as in the log of the node. NULL: as for `address`.';

-- +goose Down

ALTER TABLE audit_log DROP address, DROP request_id;
COMMENT ON TABLE audit_log IS
    'One row for each change that someone requested. The rows of a namespace are a chain: the hash of a row covers the '
    'hash of the row before it, so a row that is changed or removed later is detected.';
