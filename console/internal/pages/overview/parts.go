// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
)

// part is a part of the installation that is missing or not well.
type part struct{ Name, Class, State, Says string }

// program is one of ours that runs in a Deployment.
type program struct {
	chart, name string
	// without is what does not happen while it is away.
	without string
}

// programs are known by their charts, which label them, and by their images: others label theirs with such names, too.
var programs = map[string]program{
	"operator":                  {"scanyard", "The operator", "No scan starts or goes on."},
	"reports-apiserver":         {"reports", "The reports API server", "Findings of all scans, trends and images cannot be asked for."},
	"registry-controller":       {"registry", "The controller of registries", "No registry is looked at."},
	"registry-worker":           {"registry", "The worker of registries", "No image is scanned."},
	"forwarder":                 {"forwarding", "The forwarder", "Findings wait to be sent on."},
	"auto-discovery-kubernetes": {"auto-discovery-kubernetes", "Auto-discovery", "New services and images are not found."},
}

const labelChart = "app.kubernetes.io/name"

// parts fills those that are missing or not well, as far as the viewer may see them.
func (d *data) parts(q *web.Request) (notes []string) {
	for _, kind := range []struct {
		list       client.ObjectList
		name, says string
	}{
		{&settingsv1alpha2.FindingExceptionList{}, "Exceptions", "Who runs the cluster applies the CRDs of charts/scanyard anew."},
		{&registryv1alpha1.RegistryList{}, "Registry scanning", "It scans the images of registries: who runs the cluster installs charts/registry."},
	} {
		err := q.Viewer.Served(q.Context(), q.Scope, kind.list)
		switch {
		case errors.Is(err, cluster.ErrAbsent):
			d.Parts = append(d.Parts, part{kind.name, "off", "not installed", kind.says})
		case err != nil:
			notes = append(notes, web.Notes(kind.name, nil, err)...)
		}
	}
	var charts []string
	for p := range maps.Values(programs) {
		charts = append(charts, p.chart)
	}
	ours, err := labels.NewRequirement(labelChart, selection.In, charts)
	if err != nil {
		return append(notes, "The parts of the installation cannot be read: "+err.Error())
	}
	// Who may not look at Deployments does not run the cluster, and is not told of that here.
	_, err = q.Viewer.Each(q.Context(), cluster.Scope{}, &appsv1.DeploymentList{}, func(o client.Object) error {
		if deployment, ok := o.(*appsv1.Deployment); ok {
			if p, unwell := partOf(deployment); unwell {
				d.Parts = append(d.Parts, p)
			}
		}
		return nil
	}, client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*ours)})
	slices.SortStableFunc(d.Parts, func(a, b part) int { return strings.Compare(a.Class, b.Class) }) // what is not well first
	return append(notes, web.Notes("The parts of the installation", nil, err)...)
}

// partOf says what is wrong with a Deployment, if it is one of ours and something is.
func partOf(deployment *appsv1.Deployment) (part, bool) {
	p, ok := programOf(deployment.Spec.Template.Spec.Containers)
	if !ok || deployment.Labels[labelChart] != p.chart {
		return part{}, false
	}
	want := int32(1)
	if deployment.Spec.Replicas != nil {
		want = *deployment.Spec.Replicas
	}
	ready := deployment.Status.ReadyReplicas
	where := fmt.Sprintf("kubectl -n %s describe deployment %s", deployment.Namespace, deployment.Name)
	switch {
	case ready >= want && want > 0:
		return part{}, false
	case want == 0:
		return part{p.name, "bad", "switched off", p.without + " Its Deployment asks for no pods: " + where}, true
	case ready == 0:
		return part{p.name, "bad", "not ready", p.without + " See why: " + where}, true
	}
	return part{p.name, "wait", fmt.Sprintf("%d of %d ready", ready, want), "See why: " + where}, true
}

// programOf is the program that containers run.
func programOf(containers []corev1.Container) (program, bool) {
	for i := range containers {
		image, _, _ := strings.Cut(path.Base(containers[i].Image), "@")
		image, _, _ = strings.Cut(image, ":")
		if p, ok := programs[image]; ok {
			return p, true
		}
	}
	return program{}, false
}
