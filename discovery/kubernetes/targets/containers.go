// SPDX-License-Identifier: Apache-2.0

package targets

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/discovery/kubernetes/config"
)

// use is an image that a container of a pod runs.
type use struct {
	pod       *corev1.Pod
	container string
	args      config.ImageArgs
	imageID   string
	app       string
	digest    string
}

// images finds the images of all pods. Each image is scanned once in a namespace, however many pods run
// it; its target is the oldest of them.
func (s *search) images() {
	uses := map[string][]use{}
	var order []string
	pods := slices.Clone(s.Pods)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	for _, p := range pods {
		for _, u := range s.usesOf(p) {
			if _, seen := uses[u.imageID]; !seen {
				order = append(order, u.imageID)
			}
			uses[u.imageID] = append(uses[u.imageID], u)
		}
	}
	for _, id := range order {
		s.image(uses[id])
	}
}

// usesOf are the images of a pod that may be scanned.
func (s *search) usesOf(p *corev1.Pod) []use {
	v := Result{Kind: KindContainer, Detail: "pod " + p.Name, Outcome: Skipped}
	if p.DeletionTimestamp != nil {
		return nil
	}
	if strings.Contains(p.Labels[LabelManagedBy], "securecodebox") {
		v.Name, v.Reason, v.Message = p.Name, ManagedByScanner, "it is a pod of a scan"
		s.say(v)
		return nil
	}
	if reason, why := s.exclusionOf(p); why != "" {
		v.Name, v.Reason, v.Message = p.Name, reason, why
		s.say(v)
		return nil
	}
	var all []use
	for _, c := range s.containersOf(p) {
		u, reason, why := s.useOf(p, c)
		if reason == "" {
			all = append(all, u)
			continue
		}
		v.Name, v.Reason, v.Message = c.image, reason, why
		if reason == ImageUnknown {
			// Its scan may exist: the pod before this one may have run the same image.
			v.Outcome = Waiting
			repository, _ := split(c.image)
			s.held.apps.Insert(image{repository: repository}.app())
		}
		s.say(v)
		v.Outcome = Skipped
	}
	return all
}

// running is a container of a pod and what its runtime says.
type running struct{ name, image, imageID string }

// containersOf are the containers of a pod whose images count.
func (s *search) containersOf(p *corev1.Pod) []running {
	images := map[string]string{}
	var order []string
	add := func(name, image string) {
		images[name] = image
		order = append(order, name)
	}
	for _, c := range p.Spec.Containers {
		add(c.Name, c.Image)
	}
	statuses := slices.Clone(p.Status.ContainerStatuses)
	if s.ContainerAutoDiscovery.InitContainers {
		for _, c := range p.Spec.InitContainers {
			add(c.Name, c.Image)
		}
		statuses = append(statuses, p.Status.InitContainerStatuses...)
	}
	if s.ContainerAutoDiscovery.EphemeralContainers {
		for _, c := range p.Spec.EphemeralContainers {
			add(c.Name, c.Image)
		}
		statuses = append(statuses, p.Status.EphemeralContainerStatuses...)
	}
	all := make([]running, 0, len(order))
	seen := map[string]bool{}
	for _, st := range statuses {
		seen[st.Name] = true
		r := running{st.Name, images[st.Name], st.ImageID}
		if r.image == "" {
			r.image = st.Image
		}
		all = append(all, r)
	}
	for _, name := range order {
		if !seen[name] {
			all = append(all, running{name: name, image: images[name]})
		}
	}
	return all
}

// useOf reads what a container runs. A reason says why it cannot be scanned.
func (s *search) useOf(p *corev1.Pod, c running) (use, Reason, string) {
	if c.imageID == "" {
		return use{}, ImageUnknown, "the container has not started, so that its digest is not known"
	}
	i, ok := parseImageID(c.imageID)
	if !ok {
		return use{}, NoDigest, "the container runtime calls it " + c.imageID + ", which names no version"
	}
	repository, tag := split(c.image)
	u := use{pod: p, container: c.name, digest: i.digest}
	if i.repository != "" {
		u.imageID, u.app = i.id(), i.app()
		u.args = config.ImageArgs{Repository: i.repository, Name: i.app(), Tag: tag, Digest: "sha256:" + i.digest}
		return u, "", ""
	}
	if s.ContainerAutoDiscovery.ImagesWithoutDigest == config.SkipDigestless || hexDigest.MatchString(repository) || repository == "" {
		return use{}, NoDigest, "it has no digest of a registry, as images that were loaded into a node; containerAutoDiscovery.imagesWithoutDigest: " +
			"ScanByTag scans what the registry has under its name"
	}
	u.app = image{repository: repository}.app()
	u.imageID = repository
	if tag != "" {
		u.imageID += ":" + tag
	}
	u.args = config.ImageArgs{Repository: repository, Name: u.app, Tag: tag}
	return u, "", ""
}

// image wants scans of an image that is used here.
func (s *search) image(uses []use) {
	first := uses[0]
	var rules []*config.Rule
	target := map[*config.Rule]use{}
	for _, r := range s.ImageRules {
		if i := slices.IndexFunc(uses, func(u use) bool { return r.Selects(s.Namespace, u.pod) }); i >= 0 {
			rules, target[r] = append(rules, r), uses[i]
		}
	}
	v := Result{Kind: KindContainer, Name: first.imageID, Detail: "pod " + first.pod.Name}
	if len(rules) == 0 {
		s.unselected(v, s.ImageRules)
		return
	}
	object := objectReference("v1", "Pod", first.pod)
	before := len(s.missing)
	s.requireScanTypes(Missing{Object: object}, rules)
	blocked := len(s.missing) > before && !s.ContainerAutoDiscovery.AllowMissingScanTypes
	for _, r := range rules {
		u := target[r]
		key := s.place(r, imageScanName(u.app, r.Name, u.digest), maxImageScanName)
		if blocked && s.hasScanType(r) && s.Existing[key] == nil {
			v.ScanConfig, v.Outcome, v.Reason = r.Name, Waiting, ScanTypeMissing
			v.Message = "the ScanType of another scanConfig does not exist; containerAutoDiscovery.allowMissingScanTypes starts this one nevertheless"
			s.say(v)
			continue
		}
		s.imageScan(r, u, uses, v)
	}
}

// imageScan wants the scan of an image by one scanConfig. An existing ScheduledScan keeps its target as
// long as the target is one of the present ones: pods come and go while their image stays.
func (s *search) imageScan(r *config.Rule, u use, uses []use, v Result) {
	key := s.place(r, imageScanName(u.app, r.Name, u.digest), maxImageScanName)
	o, err := s.buildImageScan(r, u, key.Namespace, key.Name)
	if err != nil {
		s.failed(v, r, key, err)
		return
	}
	if have := s.Existing[key]; have != nil && Differs(have, o) {
		for _, other := range uses[:min(len(uses), maxTargets)] {
			if !r.Selects(s.Namespace, other.pod) {
				continue
			}
			if as, err := s.buildImageScan(r, other, key.Namespace, key.Name); err == nil && !Differs(have, as) {
				o = as
				break
			}
		}
	}
	s.want(v, r, o)
}

// maxTargets is how many pods of an image are tried as the target of what exists.
const maxTargets = 20

func (s *search) buildImageScan(r *config.Rule, u use, namespace, name string) (*executionv1.ScheduledScan, error) {
	out, err := r.Template.Render(config.ContainerArgs{
		Config: s.Config, ScanConfig: r.ScanConfig, Cluster: s.Cluster, Target: u.pod.ObjectMeta, Namespace: s.Namespace,
		ImageID: u.imageID, Image: u.args, Container: u.container,
	})
	if err != nil {
		return nil, err
	}
	o := &executionv1.ScheduledScan{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels:      merged(out.Labels, map[string]string{LabelManagedBy: ManagedBy}),
			Annotations: merged(out.Annotations),
		},
		Spec: out.Spec,
	}
	s.addPullSecrets(o, u)
	return o, nil
}
