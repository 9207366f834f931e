package edge

import (
	"github.com/verge-id/verge/edge/internal/listfetch"
	"github.com/verge-id/verge/edge/internal/server"
)

// ServerConfig has limits, timeouts, TLS and proxies of the network. The command
// go doc github.com/verge-id/verge/edge/internal/server.Config lists its fields.
type ServerConfig = server.Config

// Metrics are the metrics of a service. [NewMetrics] creates them.
type Metrics = server.Metrics

// GuestState is the state of an engine that runs guests, for [Metrics].
type GuestState = server.GuestState

// NewMetrics returns metrics for ServerConfig.Metrics. Use it to add your own metrics before Open.
func NewMetrics() *Metrics { return server.NewMetrics() }

// TrustListSource fetches a trusted list of a method and verifies it, as a service does.
type TrustListSource = listfetch.Source
