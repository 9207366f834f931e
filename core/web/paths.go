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
	HostedPath  = "/verify"               // of redirect_url
	ReturnPath  = HostedPath + "/return/" // and the name of the method that redirected the browser
	PendingPath = HostedPath + "/box/"    // and the handle of a pending response
)
