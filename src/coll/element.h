/* The numbers that one-sided operations and reductions are of, and the operations, as far as we do them ourselves. For C and C++. */
#ifndef PM_COLL_ELEMENT_H_INCLUDED
#define PM_COLL_ELEMENT_H_INCLUDED

typedef enum pm_element {
    PM_ELEMENT_OTHER,           /* none of the following */
    PM_INT8, PM_INT16, PM_INT32, PM_INT64,
    PM_UINT8, PM_UINT16, PM_UINT32, PM_UINT64,
    PM_FLOAT, PM_DOUBLE,
    PM_ELEMENTS
} pm_element;

typedef enum pm_operation {
    PM_OPERATION_OTHER,
    PM_REPLACE, PM_NO_OPERATION, PM_SUM, PM_PRODUCT, PM_MAX, PM_MIN,
    PM_BAND, PM_BOR, PM_BXOR, PM_LAND, PM_LOR, PM_LXOR,
    PM_OPERATIONS
} pm_operation;

#endif
