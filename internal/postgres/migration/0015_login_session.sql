-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Login sessions of the web UI

CREATE TABLE login_session (
    id           uuid        PRIMARY KEY,
    namespace_id uuid        NOT NULL,
    key_id       uuid        NOT NULL,
    hash         bytea       NOT NULL CONSTRAINT login_session_hash_key UNIQUE,
    client       text        NOT NULL,
    created_at   timestamptz NOT NULL,
    used_at      timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL
);
CREATE INDEX login_session_key ON login_session (key_id, created_at);
CREATE INDEX login_session_expires ON login_session (expires_at);
COMMENT ON TABLE login_session IS
    'Login sessions of the web UI. A browser that sends the secret of a session as a cookie acts as the key of the '
    'session. A session ends with its key, at expires_at, and after an hour without a request. At most 20 per key.';
COMMENT ON COLUMN login_session.namespace_id IS 'The namespace of the key.';
COMMENT ON COLUMN login_session.key_id IS 'The key that logged in. It must still be valid.';
COMMENT ON COLUMN login_session.hash IS 'SHA-256 of the secret in the cookie.';
COMMENT ON COLUMN login_session.client IS 'How the browser described itself when it logged in (User-Agent).';
COMMENT ON COLUMN login_session.used_at IS
    'When a request last used the session. A node writes it at most once a minute, so that reading does not write.';
COMMENT ON COLUMN login_session.expires_at IS 'When the session ends at the latest: after 12 hours, or with its key.';
COMMENT ON INDEX login_session_pkey IS 'Logout, and used_at.';
COMMENT ON INDEX login_session_hash_key IS 'Authentication: finds the session of a request.';
COMMENT ON INDEX login_session_key IS 'The sessions of a key: list, revoke, and the limit per key.';
COMMENT ON INDEX login_session_expires IS 'Prune: sessions that have expired.';

-- belfry_engine finds the session of a request and removes expired ones. Only belfry_api creates sessions, as with keys.
GRANT SELECT, DELETE ON login_session TO belfry_engine;
GRANT SELECT, INSERT, DELETE ON login_session TO belfry_api;
GRANT UPDATE (used_at) ON login_session TO belfry_api;
ALTER TABLE login_session ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY engine ON login_session TO belfry_engine USING (true);
CREATE POLICY api ON login_session TO belfry_api USING (namespace_id = belfry_namespace());

-- +goose Down

DROP TABLE login_session;
