-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Users see which days are archived, so that `why` can say where a run is. The table has nothing of a namespace. The
-- policy also covers the owner of the table, with whose rights the functions of the archive run.
ALTER TABLE archive_day ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY everyone ON archive_day USING (true);
GRANT SELECT (day, manifest) ON archive_day TO belfry_api;

-- +goose Down

REVOKE SELECT (day, manifest) ON archive_day FROM belfry_api;
DROP POLICY everyone ON archive_day;
ALTER TABLE archive_day NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY;
