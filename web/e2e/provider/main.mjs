// A real identity provider for the browser tests: oidc-provider with its own login page. Who logs in as NAME is that
// person; every password is right. It prints its issuer when it is ready.
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const groups = { ann: ['belfry-admins', 'staff'], vic: ['staff'], eve: ['guests'] };

const server = createServer((req, res) => callback(req, res));
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: [{ client_id: 'belfry', client_secret: 'a secret of the tests: %/+', redirect_uris: [process.env.REDIRECT_URI], grant_types: ['authorization_code'], response_types: ['code'] }],
  pkce: { required: () => true },
  claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
  scopes: ['openid', 'email', 'groups'],
  cookies: { keys: ['of the tests'] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: true, groups: groups[id] ?? [] }) }),
});
const callback = provider.callback();
process.stdout.write(`issuer ${issuer}\n`);
