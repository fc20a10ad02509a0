"""The openai and mistralai clients with API keys and tokens, good and bad.

Prints TAP.  Needs build/ngx_http_mistral_module.so, build/mistral, openssl
and the clients in build/venv.
"""

import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

import openai
from mistralai.client import Mistral

sys.dont_write_bytecode = True

from harness import FOX, Server, done, ok, same

DIR = tempfile.TemporaryDirectory(prefix="mistral-keys-")
os.chmod(DIR.name, 0o755)              # workers look for changes

HTTP = """
    mistral_model null { path null:; }

    map $mistral_jwt_claim_scope $may_ask { default 0; chat 1; }

    server {
        listen  127.0.0.1:PORT;

        add_header  X-Consumer $mistral_consumer always;

        location /v1/ {
            mistral_auth_key           models;
            mistral_auth_key_file      %(dir)s/keys;
            mistral_auth_jwt           models aud=llm;
            mistral_auth_jwt_key_file  %(dir)s/jwt.pem;
            mistral_auth_jwt_require   $may_ask;
            mistral_pass               null;
        }

        location = /healthz { mistral_health ready; }
    }
""" % dict(dir=DIR.name)


def run(command):
    subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def b64(data):
    if isinstance(data, dict):
        data = json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(**claims):
    text = b64(dict(alg="EdDSA")) + "." + b64(claims)
    with open(DIR.name + "/input", "w") as f:
        f.write(text)
    run("openssl pkeyutl -sign -rawin -inkey %s/jwt.key -in %s/input -out "
        "%s/output" % ((DIR.name,) * 3))
    with open(DIR.name + "/output", "rb") as f:
        return text + "." + b64(f.read())


def ask(key, stream=False, **options):
    """what the client makes of it: the text, or its exception"""
    client = openai.OpenAI(base_url=server.url + "/v1", api_key=key,
                           max_retries=3, **options)
    try:
        r = client.chat.completions.with_raw_response.create(
            model="null", max_tokens=9, stream=stream,
            messages=[{"role": "user", "content": "hi"}])
        who = r.headers.get("x-consumer")
        r = r.parse()
        if stream:
            return who, "".join(c.choices[0].delta.content or "" for c in r
                                if c.choices)
        return who, r.choices[0].message.content
    except openai.APIStatusError as e:
        return type(e).__name__, e.status_code, e.code


with open(DIR.name + "/keys", "w") as f:
    f.write("alice:{SHA256}%s:gold\n"
            % hashlib.sha256(b"sk-alice").hexdigest())

run("openssl genpkey -algorithm ED25519 -out %s/jwt.key" % DIR.name)
run("openssl pkey -pubout -in %s/jwt.key -out %s/jwt.pem"
    % (DIR.name, DIR.name))

now = int(time.time())
good = dict(sub="me", aud="llm", scope="chat", exp=now + 3600)
server = Server(HTTP)

same(ask("sk-alice"), ("alice", FOX[:9]), "a key")
same(ask("sk-alice", stream=True), ("alice", FOX[:9]), "a key, a stream")
same(ask(token(**good)), ("me", FOX[:9]), "a token")
same(ask(token(**good), stream=True), ("me", FOX[:9]), "a token, a stream")
same(ask("none", default_headers={"Authorization": "",
                                  "x-api-key": "sk-alice"}),
     ("alice", FOX[:9]), "a key in x-api-key")

same(ask("sk-eve"), ("AuthenticationError", 401, "invalid_api_key"),
     "nobody's key")
same(ask("sk-eve", stream=True),
     ("AuthenticationError", 401, "invalid_api_key"), "for a stream")
same(ask("none", default_headers={"Authorization": ""}),
     ("AuthenticationError", 401, "missing_credentials"), "no key")
same(ask(token(**dict(good, exp=now - 9))),
     ("AuthenticationError", 401, "token_expired"), "an old token")
same(ask(token(**dict(good, aud="mail"))),
     ("AuthenticationError", 401, "invalid_token"), "a token for others")
same(ask(token(**dict(good, scope="read"))),
     ("PermissionDeniedError", 403, "access_denied"), "a token without scope")

ok(len([l for l in server.log().splitlines() if "no access" in l]) == 6,
   "the client tries none of them again")

with Mistral(api_key="sk-alice", server_url=server.url) as client:
    r = client.chat.complete(model="null", max_tokens=9, messages=[
        {"role": "user", "content": "hi"}])
    same(r.choices[0].message.content, FOX[:9], "mistralai: a key")

with Mistral(api_key="sk-eve", server_url=server.url) as client:
    try:
        client.chat.complete(model="null", messages=[
            {"role": "user", "content": "hi"}])
        ok(False, "mistralai: nobody's key")
    except Exception as e:
        same(getattr(e, "status_code", None), 401, "mistralai: nobody's key")

server.stop()
DIR.cleanup()
done()
