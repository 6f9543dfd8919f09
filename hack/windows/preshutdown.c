/* Makes an unmodified Wine tell its services that the machine goes down, as Windows would: every service that accepts
 * it gets a real SERVICE_CONTROL_PRESHUTDOWN, by the system's own code. No command of Wine does that. A test tool.
 *
 *   preshutdown.exe SERVICE MILLISECONDS     watches the service for so long, and prints every report it makes
 *
 * 1. Park the first thread of services.exe: on the same event it would end the services itself. Its other threads go on
 *    to serve, so that reports still arrive.
 * 2. Take a handle to the server's shutdown event, by becoming a system process, which gets that event.
 * 3. Set the event. */
#include <windows.h>
#include <winternl.h>
#include <tlhelp32.h>
#include <stdio.h>

#define PROCESS_WINE_MAKE_PROCESS_SYSTEM 1000

typedef NTSTATUS(WINAPI *set_information)(HANDLE, int, void *, ULONG);

static DWORD services_process(HANDLE snapshot)
{
	PROCESSENTRY32W entry = {sizeof entry};
	for (BOOL more = Process32FirstW(snapshot, &entry); more; more = Process32NextW(snapshot, &entry))
		if (!_wcsicmp(entry.szExeFile, L"services.exe"))
			return entry.th32ProcessID;
	return 0;
}

static DWORD first_thread(HANDLE snapshot, DWORD process)
{
	THREADENTRY32 entry = {sizeof entry};
	ULONGLONG earliest = ~0ULL;
	DWORD found = 0;
	for (BOOL more = Thread32First(snapshot, &entry); more; more = Thread32Next(snapshot, &entry)) {
		FILETIME created, exited, kernel, user;
		if (entry.th32OwnerProcessID != process)
			continue;
		HANDLE thread = OpenThread(THREAD_QUERY_INFORMATION, FALSE, entry.th32ThreadID);
		if (!thread)
			continue;
		if (GetThreadTimes(thread, &created, &exited, &kernel, &user)) {
			ULONGLONG at = ((ULONGLONG)created.dwHighDateTime << 32) | created.dwLowDateTime;
			if (at < earliest) {
				earliest = at;
				found = entry.th32ThreadID;
			}
		}
		CloseHandle(thread);
	}
	return found;
}

static BOOL park(void)
{
	HANDLE snapshot = CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS | TH32CS_SNAPTHREAD, 0);
	DWORD thread_id = first_thread(snapshot, services_process(snapshot));
	HANDLE thread = thread_id ? OpenThread(THREAD_SUSPEND_RESUME, FALSE, thread_id) : NULL;
	return thread && SuspendThread(thread) != (DWORD)-1;
}

static HANDLE shutdown_event(void)
{
	HANDLE event = NULL, ours = NULL;
	set_information set = (set_information)(void *)GetProcAddress(GetModuleHandleW(L"ntdll"), "NtSetInformationProcess");
	set(GetCurrentProcess(), PROCESS_WINE_MAKE_PROCESS_SYSTEM, &event, sizeof(HANDLE *));
	DuplicateHandle(GetCurrentProcess(), event, GetCurrentProcess(), &ours, EVENT_MODIFY_STATE, FALSE, 0);
	return ours;
}

int wmain(int count, wchar_t **arguments)
{
	if (count != 3)
		return 2;
	SC_HANDLE manager = OpenSCManagerW(NULL, NULL, SC_MANAGER_CONNECT);
	SC_HANDLE service = OpenServiceW(manager, arguments[1], SERVICE_QUERY_STATUS);
	if (!service || !park())
		return 3;
	HANDLE event = shutdown_event();
	if (!event || !SetEvent(event))
		return 4;
	ULONGLONG began = GetTickCount64(), limit = (ULONGLONG)_wtoi(arguments[2]);
	DWORD state = 0, checkpoint = 0;
	while (GetTickCount64() - began < limit && state != SERVICE_STOPPED) {
		SERVICE_STATUS_PROCESS now = {0};
		DWORD needed;
		if (!QueryServiceStatusEx(service, SC_STATUS_PROCESS_INFO, (BYTE *)&now, sizeof now, &needed))
			return 5;
		if (now.dwCurrentState != state || now.dwCheckPoint != checkpoint) {
			state = now.dwCurrentState;
			checkpoint = now.dwCheckPoint;
			printf("%llu %lu %lu %lu\n", GetTickCount64() - began, state, checkpoint, now.dwWaitHint);
			fflush(stdout);
		}
		Sleep(10);
	}
	return 0;
}
