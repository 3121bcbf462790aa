#!/bin/sh
# Creates the roles and the database of Belfry. The image of PostgreSQL runs it once, when its data directory is empty.
set -eu
psql --set ON_ERROR_STOP=1 --set owner="$OWNER_PASSWORD" --set server="$SERVER_PASSWORD" --username postgres <<'SQL'
CREATE ROLE belfry_api NOLOGIN;
CREATE ROLE belfry_engine NOLOGIN;
CREATE ROLE belfry_owner LOGIN PASSWORD :'owner';
CREATE ROLE belfry_server LOGIN PASSWORD :'server';
GRANT belfry_api, belfry_engine TO belfry_owner WITH ADMIN OPTION;
CREATE DATABASE belfry OWNER belfry_owner;
SQL
