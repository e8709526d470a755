/* The parts of Open MPI's devel headers that the component needs; read by bindgen. */
#ifdef __clang__
/* gcc, which configured Open MPI, has this type, but older versions of clang do not. No structure used here
 * contains this type. */
#define _Float16 short
#endif

#include "opal_config.h"

#include "opal/constants.h"
#include "opal/class/opal_bitmap.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/mca/rcache/base/base.h"
#include "opal/runtime/opal.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"

#include "opal/datatype/opal_datatype_internal.h"
#include "ompi/mca/osc/osc.h"
#include "ompi/op/op.h"
#include "ompi/win/win.h"

#include "c/osc.h"
