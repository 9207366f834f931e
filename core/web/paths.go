package web

// Paths of the publishers' API.
const (
	StartPath    = "/api/v1/verify/start"
	ValidatePath = "/api/v1/verify/validate"
	SessionsPath = "/api/v1/verify/sessions/" // and the session id
	TestsPath    = "/api/v1/verify/test-events"
	OpenAPIPath  = "/api/v1/openapi.yaml" // its description
)

// Paths of the hosted pages.
const (
	HostedPath   = "/verify"                // of redirect_url
	FilePath     = HostedPath + "/file"     // where a form with a picture is posted
	WalletPath   = HostedPath + "/wallet"   // where a form with the response of a browser's wallet is posted
	LogoPath     = HostedPath + "/logo/"    // and the name of a publisher's logo
	PasskeysPath = HostedPath + "/passkeys" // where users see their passkeys' records
	ReturnPath   = HostedPath + "/return/"  // and the name of the method that redirected the browser
	PhonePath    = HostedPath + "/phone/"   // and the handle of a hand-off, which a phone opens
	PendingPath  = HostedPath + "/box/"     // and the handle of a pending response
)
