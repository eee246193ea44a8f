// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// expiryOf returns how long the presigned URLs of a Scan are valid. A Job cannot get other URLs once
// it exists, and Kueue may hold it back for long: such URLs are valid as long as URLs can be.
func (r *Reconciler) expiryOf(o *life.Observation) Expiry {
	if !o.Turn.Delegated {
		return r.expiry
	}
	const longest = store.DownloadExpiry
	return Expiry{Scan: max(r.expiry.Scan, longest), Parser: max(r.expiry.Parser, longest), Hook: max(r.expiry.Hook, longest)}
}
