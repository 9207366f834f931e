// Package npmwallet runs other authors' wallets, issuers and lists: the npm packages @owf/mdoc,
// @auth0/mdl, @openid4vc/openid4vp, @credo-ts/openid4vc, @sd-jwt/sd-jwt-vc, @owf/eudi-lote,
// @owf/token-status-list and @sd-jwt/jwt-status-list, which .ci/install installs. Tests that use it need
// VERGE_REQUIRE_REAL=1 to fail without them, and are skipped otherwise.
//
// Each script of the folder scripts reads JSON from standard input and writes JSON to standard output. Its
// head describes both.
package npmwallet
