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

// compared is how many other Scans are looked at.
const compared = 100

// distrust has the operator write links anew that lead to a strange host. It returns the Scan to go on with, and
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

// strange returns the host of a link where the links of other Scans of the namespace lead elsewhere, and nobody has
// said that it is right. The status of a Scan can be changed by its own account, so by its parser and its hooks, and a
// link to another host would have who reads the findings tell that host of it, or read what it makes up. Where there is
// nothing to compare with, no host is strange.
func (r *Reader) strange(ctx context.Context, scan *executionv1.Scan, link string) (string, error) {
	host := hostOf(link)
	if host == "" || r.options.ConnectTo != "" || slices.Contains(r.options.TrustHosts, host) {
		return "", nil
	}
	var others executionv1.ScanList
	err := r.client.List(ctx, &others, client.InNamespace(scan.Namespace), client.Limit(compared))
	if apierrors.IsForbidden(err) {
		return "", nil // who may read one Scan only has nothing to compare with
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

// hostOf is the host of a link with its port; "" of what is no link.
func hostOf(link string) string {
	parsed, err := url.Parse(link)
	if err != nil {
		return ""
	}
	return parsed.Host
}
