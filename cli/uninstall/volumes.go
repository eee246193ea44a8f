// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// withVolumes are the charts whose volume claims Helm leaves.
var withVolumes = []string{"scanyard", "reports", "forwarding", "registry"}

// readVolumes reads the claims of our charts, by labels that are there without a release as well, and whatever else is claimed in
// the namespaces of their releases.
func (i *Inventory) readVolumes(ctx context.Context, c client.Client) error {
	ours, err := labels.NewRequirement(labelName, selection.In, withVolumes)
	if err != nil {
		return err
	}
	if err := i.addVolumes(ctx, c, client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*ours)}, false); err != nil {
		return err
	}
	for _, r := range i.Releases {
		if slices.Contains(withVolumes, r.Chart) {
			if err := i.addVolumes(ctx, c, client.InNamespace(r.Namespace), true); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(i.Volumes, func(a, b Volume) int { return strings.Compare(a.NamespacedName.String(), b.NamespacedName.String()) })
	i.Volumes = slices.Compact(i.Volumes)
	return nil
}

func (i *Inventory) addVolumes(ctx context.Context, c client.Client, which client.ListOption, unknown bool) error {
	var all corev1.PersistentVolumeClaimList
	if err := c.List(ctx, &all, which); err != nil {
		return fmt.Errorf("list volume claims: %w", err)
	}
	for n := range all.Items {
		claim := &all.Items[n]
		v := Volume{keyOf(claim), onVolume(claim)}
		// A claim that is deleted goes as soon as no pod uses it.
		if claim.DeletionTimestamp.IsZero() && (v.Holds != "" || unknown) {
			i.Volumes = append(i.Volumes, v)
		}
	}
	return nil
}

// onVolume says what is on the volume of one of our charts; empty: the claim is of none of them. Helm labels claims that it makes;
// those of a StatefulSet have the labels of its pods, and a name that begins with that of the volume.
func onVolume(claim *corev1.PersistentVolumeClaim) string {
	l := claim.Labels
	made := func(chart string) bool { return strings.HasPrefix(l["helm.sh/chart"], chart+"-") }
	of := func(chart, component, volume string) bool {
		return l[labelName] == chart && l[labelComponent] == component && strings.HasPrefix(claim.Name, volume+"-")
	}
	switch {
	case of("scanyard", "minio", "data"):
		return "results of scans, in the bundled store"
	case of("forwarding", "exporter", "queue"):
		return "records that an exporter has yet to send"
	case of("registry", "worker", "cache"):
		return "vulnerability databases and layers, which a worker loads again"
	case l[labelName] == "forwarding" && made("forwarding"):
		return "what the receiver has received"
	case l[labelName] == "reports" && made("reports") && strings.HasSuffix(claim.Name, "-backup"):
		return "backups of the reports"
	case l[labelName] == "reports" && made("reports"):
		return "the reports"
	}
	return ""
}
