{{/* Labels of an object of one component; without a component those of all. Takes a dict: root, name. */}}
{{- define "dovetail.labels" -}}
app.kubernetes.io/name: dovetail
{{- with .name }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- if .root.Values.releaseLabels }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}
{{- end }}

{{/* What selects the pods of a component; it never changes. Takes a dict: name. */}}
{{- define "dovetail.selector" -}}
app.kubernetes.io/name: dovetail
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "dovetail.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end }}
{{- end }}
{{- end }}

{{/* The Secret with REDIS_URL of a user of Redis. Takes a dict: root, name. */}}
{{- define "dovetail.redisSecret" -}}
{{- .root.Values.redis.secretName | default (printf "dovetail-redis-%s" .name) -}}
{{- end }}

{{/* Names of the running services, as a list in YAML flow style. */}}
{{- define "dovetail.components" -}}
watcher, scheduler, launcher, terminator, interruption{{ if .Values.console.enabled }}, console{{ end }}{{ if .Values.shadow.enabled }}, shadow{{ end }}
{{- end }}

{{/* Values by the names of settings, quoted for a ConfigMap; a float of 1e+06 stays a whole number. */}}
{{- define "dovetail.settings" -}}
{{- range $name, $value := . }}
{{ $name }}: {{ if kindIs "float64" $value }}{{ if eq (floor $value) $value }}{{ int64 $value | quote }}{{ else }}{{ $value | quote }}{{ end }}{{ else }}{{ $value | toString | quote }}{{ end }}
{{- end }}
{{- end }}

{{/* The settings of all services: those of the values over those that follow from the chart. */}}
{{- define "dovetail.allSettings" -}}
{{- $own := dict "SYSTEM_NAMESPACE" .Release.Namespace "AWS_EC2_METADATA_DISABLED" "true" "STATUS_HOST" "0.0.0.0" "STATUS_PORT" "8080" "PROBE_PORT" "8081" -}}
{{- with .Values.statusConfigMap }}{{ $_ := set $own "STATUS_CONFIG_MAP" . }}{{ end -}}
{{- with .Values.karpenter.lease }}{{ $_ := set $own "KARPENTER_LEASE" . }}{{ end -}}
{{- mergeOverwrite $own .Values.settings | toYaml -}}
{{- end }}

{{/* All that the schema cannot say in one clear line. */}}
{{- define "dovetail.faults" -}}
{{- $faults := list -}}
{{- if not .Values.image.repository }}{{ $faults = append $faults "image.repository is missing: the image in your registry, such as registry.example.com/dovetail" }}{{ end -}}
{{- if not .Values.settings.CLUSTER_NAME }}{{ $faults = append $faults "settings.CLUSTER_NAME is missing: the name of your EKS cluster" }}{{ end -}}
{{- if not .Values.settings.AWS_REGION }}{{ $faults = append $faults "settings.AWS_REGION is missing: the region of your EKS cluster, such as eu-central-1" }}{{ end -}}
{{- if eq .Values.aws.credentials "irsa" }}{{ range $name, $arn := .Values.aws.roles }}
{{- if not $arn }}{{ $faults = append $faults (printf "aws.roles.%s is missing: the ARN of its IAM role, which aws.credentials=irsa needs" $name) }}{{ end -}}
{{ end }}{{ end -}}
{{- if and .Values.redis.secretName .Values.redis.bundled.enabled }}{{ $faults = append $faults "redis.secretName is for a Redis of your own: set redis.bundled.enabled=false, or leave it empty" }}{{ end -}}
{{- with .Values.redis }}
{{- if and .bundled.persistence.enabled (not .bundled.enabled) }}{{ $faults = append $faults "redis.bundled.persistence.enabled needs redis.bundled.enabled=true: a Redis of your own keeps its data itself" }}{{ end -}}
{{- if and .bundled.persistence.existingClaim (not .bundled.persistence.enabled) }}{{ $faults = append $faults "redis.bundled.persistence.existingClaim needs redis.bundled.persistence.enabled=true" }}{{ end -}}
{{- if and .external.iam .bundled.enabled }}{{ $faults = append $faults "redis.external.iam is for a Redis of your own: set redis.bundled.enabled=false" }}{{ end -}}
{{- end }}
{{- if and .Values.records.existingClaim (not (hasPrefix "/" .Values.records.store)) }}{{ $faults = append $faults "records.existingClaim needs a directory in records.store, such as /var/lib/dovetail/records" }}{{ end -}}
{{- if and .Values.kubectlPlugin.approvals (not .Values.kubectlPlugin.enabled) }}{{ $faults = append $faults "kubectlPlugin.approvals needs kubectlPlugin.enabled=true" }}{{ end -}}
{{- if and .Values.agents.enabled (eq .Values.agents.namespace .Release.Namespace) }}{{ $faults = append $faults "agents.namespace must be another namespace than that of the release: agents need the host network" }}{{ end -}}
{{- range $key := list "app.kubernetes.io/name" "app.kubernetes.io/component" }}
{{- if hasKey $.Values.podLabels $key }}{{ $faults = append $faults (printf "podLabels must not have %s: the chart selects pods by it" $key) }}{{ end -}}
{{- range $name, $values := $.Values }}
{{- if and (kindIs "map" $values) (hasKey $values "podLabels") }}{{ if hasKey (get $values "podLabels" | default dict) $key }}{{ $faults = append $faults (printf "%s.podLabels must not have %s: the chart selects pods by it" $name $key) }}{{ end }}{{ end -}}
{{ end }}{{ end -}}
{{- if $faults }}{{ fail (printf "\n- %s\ndocs/operating/helm.md explains the values" (join "\n- " $faults)) }}{{ end -}}
{{- end }}
