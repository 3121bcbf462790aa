-- +goose Up

-- The id is a UUIDv7 made by Belfry, without a default: a namespace has the same id on every shard, and a default
-- would quietly make a different one on each.
-- The name is a DNS label, so that it fits in URLs, metric labels and file names. COLLATE "C" keeps its order and its
-- index the same on every server, whatever the locale and the version of the C library.
CREATE TABLE namespace (
    id         uuid        PRIMARY KEY,
    name       text        COLLATE "C" NOT NULL
        CONSTRAINT namespace_name_key UNIQUE
        CONSTRAINT namespace_name_form CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- +goose Down

DROP TABLE namespace;
