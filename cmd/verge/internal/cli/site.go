package cli

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/verge-id/verge/core/integration"
)

// apply saves the site to the store. It archives only publishers and integrations that the file marks as
// archived. It warns about integrations that start no sessions because their webhook has not passed its test.
func (pl *plan) apply(ctx context.Context, d *integration.Directory) error {
	if err := d.Put(ctx, pl.Site, integration.KeepRemoved, sideBySide); err != nil {
		return err
	}
	var looks []func() error
	for _, i := range pl.Site.Integrations {
		if i.Archived {
			continue
		}
		looks = append(looks, func() error {
			kept, err := d.Integration(ctx, i.ID)
			if err != nil {
				return fmt.Errorf("integration %s: %w", i.ID, err)
			}
			ready, err := d.Ready(ctx, kept)
			if err != nil {
				return fmt.Errorf("integration %s: %w", i.ID, err)
			}
			if !ready && !pl.Core.Dev {
				pl.log.Warn("integration not ready, starts no sessions", "integration", i.ID,
					"do", "verge integration test "+i.ID)
			}
			return nil
		})
	}
	return sideBySide(looks)
}

// sideBySide runs all functions, at most 64 at a time, and returns the first error.
func sideBySide(all []func() error) error {
	var group errgroup.Group
	group.SetLimit(64)
	for _, do := range all {
		group.Go(do)
	}
	return group.Wait()
}
