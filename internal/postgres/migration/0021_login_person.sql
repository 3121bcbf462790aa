-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Login sessions of people, who log in through an identity provider and have no key. Their id takes the place of the
-- key's, so that the same index finds the sessions of both.

ALTER TABLE login_session
    ADD issuer  text,
    ADD subject text,
    ADD name    text,
    ADD groups  text[],
    ADD CONSTRAINT login_session_person CHECK (num_nulls(issuer, subject, name, groups) IN (0, 4));
COMMENT ON TABLE login_session IS
    'Login sessions of the web UI. A browser that sends the secret of a session as a cookie acts as the key of the '
    'session, or as the person who logged in through an identity provider. A session ends with its key, at expires_at, '
    'and after an hour without a request. At most 20 per key, and per person.';
COMMENT ON COLUMN login_session.namespace_id IS 'The namespace of the key, or the one in which the person acts.';
COMMENT ON COLUMN login_session.key_id IS
    'The key that logged in, which must still be valid. Of a person: an id made from issuer and subject.';
COMMENT ON COLUMN login_session.issuer IS 'The identity provider of the person. NULL: a key logged in.';
COMMENT ON COLUMN login_session.subject IS 'The identity provider''s id of the person. NULL: a key logged in.';
COMMENT ON COLUMN login_session.name IS 'The name of the person, for people only. NULL: a key logged in.';
COMMENT ON COLUMN login_session.groups IS
    'The groups of the person at the login, as far as the configuration named them. Each request derives the role from '
    'them by the configuration of its node, so a change of the configuration changes the rights of live sessions. '
    'NULL: a key logged in.';
COMMENT ON INDEX login_session_key IS 'The sessions of a key or a person: list, revoke, and the limit per owner.';

-- +goose Down

DELETE FROM login_session WHERE subject IS NOT NULL;
ALTER TABLE login_session DROP issuer, DROP subject, DROP name, DROP groups;
COMMENT ON TABLE login_session IS
    'Login sessions of the web UI. A browser that sends the secret of a session as a cookie acts as the key of the '
    'session. A session ends with its key, at expires_at, and after an hour without a request. At most 20 per key.';
COMMENT ON COLUMN login_session.namespace_id IS 'The namespace of the key.';
COMMENT ON COLUMN login_session.key_id IS 'The key that logged in. It must still be valid.';
COMMENT ON INDEX login_session_key IS 'The sessions of a key: list, revoke, and the limit per key.';
