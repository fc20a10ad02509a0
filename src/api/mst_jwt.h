
/*
 * One signed token (RFC 7515, 7519): its signature, then what it claims.
 *
 * Nothing of a token is believed before its signature is good: of the header
 * only "alg" and "kid" are looked at, to find a key that is for exactly this
 * algorithm; keys that a header brings along or points to are not.  Any
 * thread.
 */

#ifndef MST_JWT_H
#define MST_JWT_H

#include <time.h>

#include <jansson.h>

#include "api/mst_jwk.h"


#define MST_JWT_MAX_SIZE  16384        /* bytes of a token */


/* the texts are in mst_jwt_text() */
typedef enum {
    MST_JWT_OK = 0,
    MST_JWT_MALFORMED,
    MST_JWT_ALG,
    MST_JWT_NO_KEY,
    MST_JWT_SIGNATURE,
    MST_JWT_CLAIMS,
    MST_JWT_NO_EXP,
    MST_JWT_EXPIRED,
    MST_JWT_EARLY,
    MST_JWT_ISSUER,
    MST_JWT_AUDIENCE
} mst_jwt_rc_t;


/* what a verified token must claim */
typedef struct {
    const mst_str_t  *issuers;         /* [n_issuers] "iss" is one of them */
    size_t            n_issuers;       /* 0: any or none */
    const mst_str_t  *audiences;       /* [n_audiences] "aud" has one */
    size_t            n_audiences;     /* 0: any or none */
    time_t            leeway;          /* seconds that clocks may differ */
    unsigned          require_exp:1;
} mst_jwt_policy_t;


/* the claims, an object and a new reference, if a key of the set signed
   them; NULL with the reason in *rc */
json_t *mst_jwt_verify(const mst_jwks_t *set, mst_str_t token,
    mst_jwt_rc_t *rc);

/* of claims that were verified, at the time "now" (seconds since 1970) */
mst_jwt_rc_t mst_jwt_check(const json_t *claims, const mst_jwt_policy_t *p,
    time_t now);

/* for a log: half a sentence */
const char *mst_jwt_text(mst_jwt_rc_t rc);


#endif /* MST_JWT_H */
