// Stand-in for the C header: bool, true and false are words of C++.
#pragma once
