// Behavioural models of the FPGA primitives in generated text, for simulation only.
//
// A look-up table is an index into its INIT, and nothing more: Verilator makes a shift of it, and
// the two outputs of a LUT6_2 share the index. Special cases for adders and xors of products gained
// nothing from text to results, and trees of multiplexers took more than twice as long.

module LUT1 #(parameter [1:0] INIT = 0) (input I0, output O);
  assign O = INIT[I0];
endmodule

module LUT2 #(parameter [3:0] INIT = 0) (input I0, I1, output O);
  assign O = INIT[{I1, I0}];
endmodule

module LUT3 #(parameter [7:0] INIT = 0) (input I0, I1, I2, output O);
  assign O = INIT[{I2, I1, I0}];
endmodule

// Xilinx names its inputs I0 to I3 and its output O, Lattice's ECP5 names them A to D and Z. Only
// one of the two is ever connected.
module LUT4 #(parameter [15:0] INIT = 0) (
  input I0, I1, I2, I3, A, B, C, D, output O, Z
);
  assign O = INIT[{I3, I2, I1, I0}];
  assign Z = INIT[{D, C, B, A}];
endmodule

module LUT5 #(parameter [31:0] INIT = 0) (input I0, I1, I2, I3, I4, output O);
  assign O = INIT[{I4, I3, I2, I1, I0}];
endmodule

module LUT6 #(parameter [63:0] INIT = 0) (input I0, I1, I2, I3, I4, I5, output O);
  assign O = INIT[{I5, I4, I3, I2, I1, I0}];
endmodule

module LUT6_2 #(parameter [63:0] INIT = 0) (input I0, I1, I2, I3, I4, I5, output O5, O6);
  assign O5 = INIT[{1'b0, I4, I3, I2, I1, I0}];
  assign O6 = INIT[{I5, I4, I3, I2, I1, I0}];
endmodule

module SB_LUT4 #(parameter [15:0] LUT_INIT = 0) (input I0, I1, I2, I3, output O);
  assign O = LUT_INIT[{I3, I2, I1, I0}];
endmodule
