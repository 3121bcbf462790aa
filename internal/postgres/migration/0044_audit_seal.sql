-- +goose Up

SET LOCAL lock_timeout = '500ms';

ALTER TABLE audit_log ADD seal bytea;
COMMENT ON COLUMN audit_log.seal IS
    'Proves that whoever wrote this row has the keyset of secrets: a ciphertext of nothing, bound to `hash`. Its bytes 2 to '
    '5 are the id of the key. NULL: the writer had no keyset, or is of an older version.';

-- +goose Down

ALTER TABLE audit_log DROP seal;
