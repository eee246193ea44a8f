// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	batchv1 "k8s.io/api/batch/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// queueJobOnly leaves the label with which a Scan names a queue of Kueue to the Job. Where Kueue
// manages pods, a pod with that label would be queued a second time.
func queueJobOnly(job *batchv1.Job, scan *executionv1.Scan) {
	if scan.Labels[executionv1.LabelKueueQueue] != "" {
		delete(job.Spec.Template.Labels, executionv1.LabelKueueQueue)
	}
}
