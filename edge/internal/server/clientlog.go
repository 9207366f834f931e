package server

import (
	"log/slog"
	"net/netip"
	"regexp"
)

// Values of Config.LogClient: the part of a client's address that is logged (contract 48).
const (
	ClientWhole = "whole" // the address, or the /64 of an IPv6 connection that sent no request
	ClientCut   = "cut"   // its /24, or its /48 if it is IPv6
	ClientOff   = "off"   // nothing
)

// clientAttrs appends the client's address, shortened by Config.LogClient, to the attributes of a line.
func (s *Server) clientAttrs(attrs []slog.Attr, client netip.Addr, whole string) []slog.Attr {
	if text := s.shownClient(client, whole); text != "" {
		attrs = append(attrs, slog.String("client", text))
	}
	return attrs
}

// networkAttrs is clientAttrs for a connection, whose client is a network.
func (s *Server) networkAttrs(network netip.Prefix, attrs ...slog.Attr) []slog.Attr {
	whole := network.String()
	if network.IsSingleIP() {
		whole = network.Addr().String()
	}
	return s.clientAttrs(attrs, network.Addr(), whole)
}

// shownClient returns the loggable form of an address. whole is its text if all of it may be logged.
func (s *Server) shownClient(client netip.Addr, whole string) string {
	switch s.cfg.LogClient {
	case ClientWhole:
		return whole
	case ClientOff:
		return ""
	}
	bits := 24
	if client.Is6() {
		bits = 48
	}
	network, err := client.Prefix(bits)
	if err != nil {
		return "" // the address is invalid
	}
	return network.String()
}

// withPort finds addresses in the texts of net and net/http.
var withPort = regexp.MustCompile(`\[[0-9a-fA-F:.]+(?:%[^\]\s]+)?\]:\d+|\d+\.\d+\.\d+\.\d+:\d+`)

// withoutClient shortens the client's address in a text of net or net/http as Config.LogClient requires.
// These texts contain both ends of a connection.
func (s *Server) withoutClient(text string) string {
	if s.cfg.LogClient == ClientWhole {
		return text
	}
	return withPort.ReplaceAllStringFunc(text, func(found string) string {
		at, err := netip.ParseAddrPort(found)
		if shown := s.shownClient(at.Addr().Unmap().WithZone(""), ""); err == nil && shown != "" {
			return shown
		}
		return elided
	})
}
