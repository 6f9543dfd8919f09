<#
Checks graceful shutdown on a real Windows node; docs/windows.md explains every step. Run it as an administrator.

  verify.ps1 -Kubeconfig C:\k\config -Config C:\k\agent.yaml    before the reboot: installs the service and looks at it
  verify.ps1 -After                                             after it: reads what happened
#>
param(
    [string]$Kubeconfig,
    [string]$Config,
    [string]$Name = "fairlead-agent",
    [string]$NodeName = [System.Net.Dns]::GetHostName().ToLower(),
    [switch]$After
)
$ErrorActionPreference = "Stop"
$log = Join-Path $env:ProgramData "fairlead\agent.log"
$failed = 0

function Check([string]$What, [bool]$Holds, [string]$Found) {
    if ($Holds) { Write-Host "ok      $What" -ForegroundColor Green }
    else { Write-Host "FAILED  $What" -ForegroundColor Red; $script:failed++ }
    if ($Found) { Write-Host "        $Found" }
}

if ($After) {
    $lines = Get-Content $log
    $announced = $lines | Select-String "shutdown announced; Windows waits for the service" | Select-Object -Last 1
    $ended = $lines | Select-String "terminating pod" | Select-Object -Last 1
    $released = $lines | Select-String "shutdown released" | Select-Object -Last 1
    Check "the service received the preshutdown notification" ($null -ne $announced) "$announced"
    Check "pods were terminated" ($null -ne $ended) "$ended"
    Check "the shutdown was released after that" (
        $released -and $ended -and $announced -and $released.LineNumber -gt $ended.LineNumber -and
        $ended.LineNumber -gt $announced.LineNumber) "$released"
    $service = Get-Service $Name
    Check "the service runs again" ($service.Status -eq "Running") "$($service.Status)"
    $state = Join-Path $env:ProgramData "fairlead\shutdown\shutdown-state.json"
    Check "the shutdown is finished" (-not (Test-Path $state)) ""
    Write-Host "Now look at the node: kubectl get node $NodeName -o yaml"
    Write-Host "  condition GracefulNodeShutdownInProgress is False, reason NodeStarted; the node takes pods."
    Write-Host "And at the pod: kubectl get pod goodbye -o yaml, phase Succeeded or Failed, reason Terminated."
    exit $failed
}

if (-not $Kubeconfig -or -not $Config) { throw "-Kubeconfig and -Config are needed" }
if (-not (Get-Service $Name -ErrorAction SilentlyContinue)) {
    fairlead agent install-service --name=$Name --kubeconfig=$Kubeconfig --config=$Config --node-name=$NodeName
    if ($LASTEXITCODE -ne 0) { throw "install-service failed" }
}
(Get-Service $Name).WaitForStatus("Running", [TimeSpan]::FromSeconds(60))
foreach ($second in 1..60) {
    if ((Test-Path $log) -and (Select-String -Quiet -Path $log -Pattern "node lease acquired")) { break }
    Start-Sleep 1
}

$query = (sc.exe query $Name) -join "`n"
Check "1. it runs and accepts the preshutdown notification" (
    $query -match "RUNNING" -and $query -match "ACCEPTS_PRESHUTDOWN") ($query -replace "\s+", " ")

$timeout = (sc.exe qpreshutdown $Name) -join " "
$short = @(Select-String -Path $log -Pattern "the node may shut down before its pods end" -ErrorAction SilentlyContinue)
Check "2. Windows waits for it (compare with your grace periods and 5000 ms)" (
    $timeout -match "\d{4,}" -and $short.Count -eq 0) "$timeout $($short | Select-Object -Last 1)"

$order = (Get-ItemProperty "HKLM:\SYSTEM\CurrentControlSet\Control").PreshutdownOrder
$needs = (Get-Service $Name).ServicesDependedOn | ForEach-Object { $_.Name }
$first = $order | Where-Object { $_ -eq $Name -or $needs -contains $_ } | Select-Object -First 1
Check "3. it is notified before its dependencies ($needs)" (-not $needs -or $first -eq $Name) ($order -join ", ")

function Running-Pods {
    @(kubectl --kubeconfig=$Kubeconfig get pods -A -o name --field-selector "spec.nodeName=$NodeName,status.phase=Running")
}
if (Get-Command kubectl -ErrorAction SilentlyContinue) {
    $earlier = Running-Pods
    Restart-Service $Name
    $later = Running-Pods
    $same = ($earlier -join " ") -eq ($later -join " ")
    Check "4. a restart of the service leaves pods alone" $same "$($later.Count) pods run"
}
else {
    Restart-Service $Name
    Write-Host "look    4. no kubectl here: see from elsewhere that the restart left the node's pods alone"
}

Write-Host @"
5. Start this pod, wait until it runs, then: Restart-Computer. The machine must take about as long as the pod does.

apiVersion: v1
kind: Pod
metadata: {name: goodbye}
spec:
  nodeName: $NodeName
  terminationGracePeriodSeconds: 30
  containers:
  - name: goodbye
    image: mcr.microsoft.com/windows/nanoserver:ltsc2022
    command: [cmd, /c, "ping -t 127.0.0.1 > nul"]
    lifecycle: {preStop: {exec: {command: [cmd, /c, "ping -n 15 127.0.0.1 > nul"]}}}

6. After the boot: verify.ps1 -After
"@
exit $failed
