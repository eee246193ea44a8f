// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// Parser is the input from which a parser Job is built.
type Parser struct {
	Scan       *executionv1.Scan
	Definition *executionv1.ParseDefinitionSpec
	// Result is the raw result that the parser reads.
	Result Result
	// RawResultURL is the presigned GET of the raw result.
	RawResultURL string
	// FindingsUploadURL is the presigned PUT of the findings.
	FindingsUploadURL string
	// ServiceAccount is the account of the pod; empty with a Handover.
	ServiceAccount string
	// Handover hands the Scan over; nil if the image reads the Scan by the API.
	Handover *Handover
	Attempt  int
	// Rerun is the annotation that asked for this run; "" in the first run.
	Rerun string
	// Hooks are the names of the hooks that will run when the findings are stored, as far as they are known now.
	Hooks []string
}

// ParserName returns the name of the parser Job of a Scan.
func ParserName(scan *executionv1.Scan, attempt int) string {
	return names.Job("parse-"+scan.Name, scan.UID, executionv1.JobTypeParser, attempt)
}

// NewParser builds the Job that turns the raw result into findings.
func NewParser(in Parser, cfg Config) *batchv1.Job {
	scan := in.Scan.DeepCopy()
	w := newParserWorker(in, in.RawResultURL, cfg)
	job := w.placed(scan).job(cfg)
	job.Name = ParserName(scan, in.Attempt)
	job.Namespace = scan.Namespace
	job.Labels = overlay(scan.Labels, map[string]string{executionv1.LabelJobType: executionv1.JobTypeParser})
	job.OwnerReferences = ownedBy(scan)
	number(job, in.Attempt, in.Rerun)
	in.Result.note(job)
	job.Annotations = overlay(job.Annotations, map[string]string{executionv1.AnnotationHooks: strings.Join(in.Hooks, ",")})
	in.Handover.mark(job)
	queueJobOnly(job, scan)
	return job
}

// newParserWorker is the parser's container, and what its pod needs. Raw is the address of the raw result.
func newParserWorker(in Parser, raw string, cfg Config) worker {
	scan, def := in.Scan.DeepCopy(), in.Definition.DeepCopy()
	w := worker{
		name:        executionv1.ContainerParser,
		image:       def.Image,
		pullPolicy:  def.ImagePullPolicy,
		pullSecrets: def.ImagePullSecrets,
		args:        []string{raw, in.FindingsUploadURL},
		env:         workerEnv(fieldEnv("NAMESPACE", "metadata.namespace"), scan, in.Handover.env(def.Env), cfg.CustomCA),
		volumes:     def.Volumes,
		mounts:      def.VolumeMounts,
		resources:   def.Resources,
		nodes:       def.NodeSelector,
		affinity:    def.Affinity,
		tolerations: def.Tolerations,
		account:     in.ServiceAccount,
		automount:   new(true),
		podLabels: overlay(
			overlay(map[string]string{executionv1.LabelManagedBy: executionv1.ManagedBy}, scan.Labels),
			map[string]string{executionv1.LabelPhase: executionv1.PhaseParser},
		),
		ttl: def.TTLSecondsAfterFinished, defaults: cfg.Additions.Parser,
	}
	if cfg.CustomCA.set() {
		w.volumes = append(w.volumes, cfg.CustomCA.caVolume())
		w.mounts = append(w.mounts, cfg.CustomCA.caMount())
	}
	in.Handover.apply(&w)
	return w
}
