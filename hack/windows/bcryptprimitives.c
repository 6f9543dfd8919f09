/* The one function of a Windows library that Wine 8 lacks and that extensions written in Rust ask for. A test tool. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);

__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *data, SIZE_T length)
{
	return SystemFunction036(data, (ULONG)length);
}
