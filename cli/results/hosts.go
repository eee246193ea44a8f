// SPDX-License-Identifier: Apache-2.0

package results

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// compared is how many other Scans are read.
const compared = 100

// distrust has the operator write links again that lead to a strange host. It returns the Scan to continue with, and
// whether it has fresh links.
func (r *Reader) distrust(ctx context.Context, scan *executionv1.Scan, kind Kind) (next *executionv1.Scan, renewed bool, err error) {
	host, err := r.strange(ctx, scan, kind.link(scan))
	if err != nil || host == "" {
		return scan, false, err
	}
	fresh, err := r.renew(ctx, scan, kind)
	if err != nil {
		return nil, false, fmt.Errorf(
			"the link to the %s of Scan %s leads to %s, where those of no other Scan in the namespace lead, and it is not followed: whoever may change the "+
				"status of the Scan can have written it. "+
				"The operator was asked for another. If the host is right, give --trust-host %s: %w",
			kind, scan.Name, host, host, err,
		)
	}
	fmt.Fprintf(r.session.ErrOut, "the links of Scan %s led to %s, where those of no other Scan lead: the operator has written them anew\n", scan.Name, host)
	return fresh, true, nil
}

// strange returns the host of a link if the links of other Scans of the namespace lead elsewhere, and the user has not
// trusted that host. The account of a Scan, and so its parser and its hooks, can change the Scan's status, and a link to
// another host would send requests of the user there, or let that host make findings up. Where there is no other Scan to
// compare with, no host is strange.
func (r *Reader) strange(ctx context.Context, scan *executionv1.Scan, link string) (string, error) {
	host := hostOf(link)
	if host == "" || r.options.ConnectTo != "" || slices.Contains(r.options.TrustHosts, host) {
		return "", nil
	}
	var others executionv1.ScanList
	err := r.client.List(ctx, &others, client.InNamespace(scan.Namespace), client.Limit(compared))
	if apierrors.IsForbidden(err) {
		return "", nil // a user who may read one Scan only has nothing to compare with
	}
	if err != nil {
		return "", fmt.Errorf("compare the links with those of other Scans: %w", err)
	}
	known := false
	for i := range others.Items {
		if others.Items[i].UID == scan.UID {
			continue
		}
		for _, kind := range []Kind{Findings, Raw} {
			switch hostOf(kind.link(&others.Items[i])) {
			case "":
			case host:
				return "", nil
			default:
				known = true
			}
		}
	}
	if !known {
		return "", nil
	}
	return host, nil
}

// hostOf returns the host of a link with its port; "" for an invalid link.
func hostOf(link string) string {
	parsed, err := url.Parse(link)
	if err != nil {
		return ""
	}
	return parsed.Host
}
