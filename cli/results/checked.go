// SPDX-License-Identifier: Apache-2.0

package results

import (
	"errors"
	"io"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/outcome"
)

// errChanged says that findings are not those that the status of the Scan names.
var errChanged = errors.New("the findings are not those that the status names")

// checked holds findings against what the status of the Scan says of them, where it does: their end comes only when the whole
// was right. While a Scan is on its way, a hook may have written others that the status does not tell of yet.
func checked(body io.ReadCloser, scan *executionv1.Scan, kind Kind) io.ReadCloser {
	if kind != Findings || scan.Status.StoredFindings == nil || !scan.Settled() {
		return body
	}
	return outcome.Stored(*scan.Status.StoredFindings).Reader(body, errChanged)
}
