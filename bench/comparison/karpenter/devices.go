// Devices of dynamic resource allocation: what the planner reads of them, and their allocation once it has planned.
//
// The planner says which machine a pod gets. Which devices it gets there is decided by kube-scheduler; Karpenter's
// allocator stands for it here. A pod for which it finds none on its machine is an error of the plan.

package scheduling

import (
	"context"
	"fmt"
	"unique"

	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling/dynamicresources"
)

var deviceKinds = []string{"DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate"}

// What the API server has of devices, and what instance types will have. Nothing while the specification ignores them.
func (s *Scheduler) devices(ctx context.Context) ([]fields, error) {
	if s.allocator == nil {
		return nil, nil
	}
	found := []fields{}
	for _, kind := range deviceKinds {
		listed, err := s.list(ctx, schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: kind})
		if err != nil {
			return nil, err
		}
		found = append(found, listed...)
	}
	for name, kind := range s.allTypes() {
		if templates := kind.DynamicResources.ResourceSliceTemplates; len(templates) != 0 {
			found = append(found, deviceTemplate(name, templates))
		}
	}
	return found, nil
}

func deviceTemplate(name string, templates []*cloudprovider.ResourceSliceTemplate) fields {
	byDriver := lo.GroupBy(templates, func(one *cloudprovider.ResourceSliceTemplate) string { return one.Driver.Value() })
	return fields{
		"apiVersion": "dovetail.sh/v1alpha1", "kind": "DeviceTemplate", "metadata": fields{"name": name},
		"spec": fields{
			"requirements": []any{fields{"key": corev1.LabelInstanceTypeStable, "operator": "In", "values": []string{name}}},
			"drivers": lo.MapToSlice(byDriver, func(driver string, own []*cloudprovider.ResourceSliceTemplate) fields {
				return fields{
					"driver": driver,
					"sharedCounters": lo.FlatMap(own, func(one *cloudprovider.ResourceSliceTemplate, _ int) []resourcev1.CounterSet {
						return one.SharedCounters
					}),
					"devices": lo.FlatMap(own, func(one *cloudprovider.ResourceSliceTemplate, _ int) []resourcev1.Device {
						return lo.Map(one.Devices, published)
					}),
				}
			}),
		},
	}
}

func published(one cloudprovider.Device, _ int) resourcev1.Device {
	return resourcev1.Device{
		Name: one.Name.Value(), Attributes: one.Attributes, Capacity: one.Capacity, ConsumesCounters: one.ConsumesCounters,
		AllowMultipleAllocations: lo.Ternary(one.AllowMultipleAllocations, new(true), nil),
	}
}

// allocate gives the planned pods their devices.
func (s *Scheduler) allocate(ctx context.Context, results *Results) {
	if s.allocator == nil {
		return
	}
	for _, node := range results.ExistingNodes {
		node.Pods = lo.Filter(node.Pods, func(one *corev1.Pod, _ int) bool {
			result, err := s.allocation(ctx, &draExistingNode{en: node, instanceType: node.instanceType}, one)
			return accepted(results, one, commit(ctx, result, err))
		})
	}
	for number, machine := range results.NewNodeClaims {
		machine.hostname = fmt.Sprintf("planned-%04d", number)
		machine.Pods = lo.Filter(machine.Pods, func(one *corev1.Pod, _ int) bool {
			result, err := s.allocation(ctx, &draNodeClaim{nc: machine}, one)
			return accepted(results, one, s.commitOn(ctx, machine, result, err))
		})
		machine.FinalizeScheduling(s.draDriversForNodeClaim(machine)...)
	}
	results.NewNodeClaims = lo.Filter(results.NewNodeClaims, func(one *NodeClaim, _ int) bool { return len(one.Pods) != 0 })
	results.DRAClaimAllocationMetadata = lo.MapKeys(
		s.allocator.ResourceClaimAllocationMetadata(),
		func(_ *dynamicresources.ResourceClaimAllocationMetadata, id dynamicresources.ResourceClaimID) types.NamespacedName {
			return id.Value()
		},
	)
}

func (s *Scheduler) allocation(ctx context.Context, on dynamicresources.NodeClaim, one *corev1.Pod) (*dynamicresources.AllocationResult, error) {
	s.updateCachedPodData(ctx, one)
	data := s.cachedPodData[one.UID]
	if !data.HasResourceClaimRequests || data.ResourceClaimErr != nil {
		return nil, data.ResourceClaimErr
	}
	return s.allocator.Allocate(ctx, on, data.ResourceClaims)
}

func commit(ctx context.Context, result *dynamicresources.AllocationResult, err error) error {
	if err == nil && result != nil && result.Allocation != nil {
		result.Allocation.Commit(ctx)
	}
	return err
}

// On a new machine only the instance types stay that have the devices.
func (s *Scheduler) commitOn(ctx context.Context, machine *NodeClaim, result *dynamicresources.AllocationResult, err error) error {
	if err != nil || result == nil {
		return err
	}
	keep, drop := lo.FilterReject(machine.InstanceTypeOptions, func(kind *cloudprovider.InstanceType, _ int) bool {
		return lo.Contains(result.InstanceTypes, unique.Make(kind.Name))
	})
	if len(keep) == 0 {
		return fmt.Errorf("none of the planned instance types has the devices")
	}
	machine.InstanceTypeOptions = keep
	machine.Requirements.Add(result.Requirements.Values()...)
	err = commit(ctx, result, nil)
	if len(drop) != 0 {
		s.allocator.ReleaseInstanceType(ctx, unique.Make(machine.hostname), lo.Map(drop, func(kind *cloudprovider.InstanceType, _ int) dynamicresources.InstanceTypeID {
			return unique.Make(kind.Name)
		})...)
	}
	return err
}

func accepted(results *Results, one *corev1.Pod, err error) bool {
	if err != nil {
		results.PodErrors[one] = fmt.Errorf("planned, and kube-scheduler would not bind it: %w", err)
	}
	return err == nil
}
