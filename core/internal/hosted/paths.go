package hosted

import "github.com/verge-id/verge/core/web"

// Paths of the hosted pages that only the core knows, besides those of package web.
const (
	FilePath     = web.HostedPath + "/file"     // where a form with a picture is posted
	WalletPath   = web.HostedPath + "/wallet"   // where a form with a wallet response is posted
	LogoPath     = web.HostedPath + "/logo/"    // and the name of a publisher's logo
	PasskeysPath = web.HostedPath + "/passkeys" // where users see their passkeys' records
	PhonePath    = web.HostedPath + "/phone/"   // and the handle of a hand-off, which a phone opens
)
