{{/* The name of all objects: that of the release. */}}
{{- define "miniqueue.name" -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{/* What selects the pod; it can never change. */}}
{{- define "miniqueue.selector" -}}
app.kubernetes.io/name: miniqueue
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "miniqueue.labels" -}}
{{ include "miniqueue.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "miniqueue.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* What Pod Security calls restricted. */}}
{{- define "miniqueue.podSecurity" -}}
runAsNonRoot: true
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "miniqueue.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
