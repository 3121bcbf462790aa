package store

// Expired is a condition on session s: it has expired, and its process had time to renew it. Only time in which nodes
// renewed their sessions counts. In normal operation that is all time, so a session may be ended as soon as it has
// expired. If more than its TTL does not count, there was an outage, and each process has twice its TTL. Short stalls
// of the database only delay the end. While the clock is in doubt, no session may be ended.
const Expired = `s.expires_at <= now() AND s.expires_at > '-infinity' AND belfry_clock_trusted() AND EXISTS (
    SELECT FROM (SELECT c.alive - s.alive AS alive, s.expires_at - s.renewed_at AS ttl FROM cluster c) c
    WHERE alive >= ttl * CASE WHEN now() - s.renewed_at > alive + ttl THEN 2 ELSE 1 END)`
