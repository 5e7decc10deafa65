// Complex numbers are printed by the host.
#pragma once
