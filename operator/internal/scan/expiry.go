// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// expiryOf is how long the presigned URLs of a Scan are good. A Job cannot get others when
// it has been made, and Kueue may hold it back for long: then they are good for as long as
// URLs can be.
func (r *Reconciler) expiryOf(o *life.Observation) Expiry {
	if !o.Turn.Delegated {
		return r.expiry
	}
	const longest = store.DownloadExpiry
	return Expiry{Scan: max(r.expiry.Scan, longest), Parser: max(r.expiry.Parser, longest), Hook: max(r.expiry.Hook, longest)}
}
